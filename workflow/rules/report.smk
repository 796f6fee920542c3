# From rows to statistics, tables, figures and the PDF.
rule judge:
    input:
        rows=ancient(FILES.all_rows()),
        cards=FILES.all_rows_cards(),
        code=sources("judge", *P.envs),
    output:
        PHASES["judge"],
    log:
        FILES.log("judge"),
    benchmark:
        FILES.benchmark("judge")
    params:
        slice=tdjepa_params.slice_json(P.judge),
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "judge"
    shell:
        "python -m tdjepa judge --slice {params.slice:q} --rows {input.rows:q} --out {params.out:q} >{log:q} 2>&1"


rule render:
    input:
        PHASES["judge"],
        ancient(FILES.all_rows()),
        FILES.all_rows_cards(),
        FILES.all_diagnostics(),
        FILES.all_curves(),
        FILES.all_episode_cards(),
        code=sources("render", *P.envs),
    output:
        PHASES["render"],
    log:
        FILES.log("render"),
    benchmark:
        FILES.benchmark("render")
    params:
        slice=tdjepa_params.slice_json(P),
    message:
        "render"
    shell:
        "python -m tdjepa render --slice {params.slice:q} >{log:q} 2>&1"


rule paper:
    input:
        PHASES["render"],
        text=texts(),
        code=sources("paper"),
    output:
        PHASES["paper"],
    log:
        FILES.log("paper"),
    benchmark:
        FILES.benchmark("paper")
    params:
        scale=S,
    message:
        "paper"
    shell:
        "python -m tdjepa paper --scale {params.scale:q} --out {output:q} >{log:q} 2>&1"
