# From rows to statistics, verdicts, tables, figures and the PDF. What they are made of:
ROWS, PAIRS, CARDS = FILES.rows(), FILES.reported("pairs"), FILES.reported("episodes")
ROWS_CARDS, PAIRS_CARDS, EPISODES_CARDS = (
    list(map(card, files)) for files in (ROWS, PAIRS, CARDS)
)
CURVES, PROBES, ALIASING = (
    FILES.reported(kind) for kind in ("curve", "probe", "aliasing")
)


rule judge:
    input:
        rows=ancients(ROWS),
        cards=ROWS_CARDS,
        pairs=ancients(PAIRS),
        pairs_cards=PAIRS_CARDS,
        code=sources("judge", *P.envs),
    output:
        FILES.gives("judge"),
    log:
        FILES.log("judge"),
    benchmark:
        FILES.benchmark("judge")
    params:
        slice=job("judge"),
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "judge"
    shell:
        "python -m tdjepa judge --slice {params.slice:q} --rows {input.rows:q} --pairs {input.pairs:q}"
        " --out {params.out:q} >{log:q} 2>&1"


rule claims:
    input:
        rows=ancients(ROWS),
        cards=ROWS_CARDS,
        pairs=ancients(PAIRS),
        pairs_cards=PAIRS_CARDS,
        ledger=LEDGER,
        code=sources("claims", *P.envs),
    output:
        FILES.one("evidence/claims.json"),
    log:
        FILES.log("claims"),
    benchmark:
        FILES.benchmark("claims")
    params:
        slice=job("claims"),
        seed=(P.part.seeds or P.train_seeds)[0],
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "claims"
    shell:
        "python -m tdjepa claims --slice {params.slice:q} --rows {input.rows:q} --pairs {input.pairs:q}"
        " --ledger {input.ledger:q} --train-seed {params.seed} --out {params.out:q} >{log:q} 2>&1"


# Three jobs, so that a changed caption draws no figure.
rule tables:
    input:
        PHASES["judge"],
        PROBES,
        EPISODES_CARDS,
        code=sources("tables", *P.envs),
    output:
        marked(FILES.gives("tables"), "Tables", ".md"),
    log:
        FILES.log("tables"),
    benchmark:
        FILES.benchmark("tables")
    params:
        slice=job("tables"),
    message:
        "tables"
    shell:
        "python -m tdjepa render --only tables --slice {params.slice:q} >{log:q} 2>&1"


rule figures:
    input:
        PHASES["judge"],
        ancients(PAIRS),
        PAIRS_CARDS,
        ALIASING,
        CURVES,
        code=sources("figures", *P.envs),
    output:
        marked(FILES.gives("figures"), "Figures", ".png"),
    log:
        FILES.log("figures"),
    benchmark:
        FILES.benchmark("figures")
    params:
        slice=job("figures"),
    message:
        "figures"
    shell:
        "python -m tdjepa render --only figures --slice {params.slice:q} >{log:q} 2>&1"


rule numbers:
    input:
        PHASES["judge"],
        ALIASING,
        EPISODES_CARDS,
        code=sources("numbers", *P.envs),
    output:
        FILES.gives("numbers"),
    log:
        FILES.log("numbers"),
    benchmark:
        FILES.benchmark("numbers")
    params:
        slice=job("numbers"),
    message:
        "numbers"
    shell:
        "python -m tdjepa render --only numbers --slice {params.slice:q} >{log:q} 2>&1"


rule paper:
    input:
        PHASES["render"],
        text=texts(),
        code=sources("paper"),
    output:
        marked(PHASES["paper"], "Report", ".pdf"),
    log:
        FILES.log("paper"),
    benchmark:
        FILES.benchmark("paper")
    params:
        scale=S,
        report=lambda w, input: os.path.dirname(
            next(f for f in input if f.endswith("numbers.tex"))
        ),
    message:
        "paper"
    shell:
        "python -m tdjepa paper --scale {params.scale:q} --report {params.report:q} --out {output:q} >{log:q} 2>&1"
