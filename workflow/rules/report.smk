# From rows to statistics, tables, figures and the PDF.
rule judge:
    input:
        rows=FILES.all_rows(),
        code=sources("tdjepa.evidence.judge"),
    output:
        PHASES["judge"],
    log:
        FILES.log("judge"),
    params:
        slice=tdjepa_params.slice_json(P.judge),
        out=lambda w, output: os.path.dirname(output[0]),
    shell:
        "python -m tdjepa judge --slice {params.slice:q} --rows {input.rows:q} --out {params.out:q} >{log:q} 2>&1"


rule render:
    input:
        PHASES["judge"],
        FILES.report_inputs(),
        code=sources("tdjepa.render.collected"),
    output:
        PHASES["render"],
    log:
        FILES.log("render"),
    params:
        slice=tdjepa_params.slice_json(P),
    shell:
        "python -m tdjepa render --slice {params.slice:q} >{log:q} 2>&1"


rule paper:
    input:
        PHASES["render"],
        text=["paper/main.tex", "paper/references.bib"],
        code=sources("tdjepa.render.pdf"),
    output:
        PHASES["paper"],
    log:
        FILES.log("paper"),
    params:
        scale=S,
    shell:
        "python -m tdjepa paper --scale {params.scale:q} --out {output:q} >{log:q} 2>&1"
