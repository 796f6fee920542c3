# From rows to statistics, verdicts, tables, figures and the PDF. What the page and the report are made of:
RESULTS = [
    PHASES["judge"],
    ancient(FILES.all_rows()),
    FILES.all_rows_cards(),
    FILES.all_pairs(),
    FILES.all_pairs_cards(),
    FILES.all_aliasing(),
    FILES.all_probes(),
    FILES.all_curves(),
    FILES.all_episode_cards(),
]


rule judge:
    input:
        rows=ancient(FILES.all_rows()),
        cards=FILES.all_rows_cards(),
        pairs=FILES.all_pairs(),
        pairs_cards=FILES.all_pairs_cards(),
        code=sources("judge", *P.envs),
    output:
        [FILES.evidence(name) for name in ("stats.json", "cells.csv", "metrics.json")],
    log:
        FILES.log("judge"),
    benchmark:
        FILES.benchmark("judge")
    params:
        slice=job(lambda w: P.judge),
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "judge"
    shell:
        "python -m tdjepa judge --slice {params.slice:q} --rows {input.rows:q} --pairs {input.pairs:q}"
        " --out {params.out:q} >{log:q} 2>&1"


rule claims:
    input:
        rows=ancient(FILES.all_rows()),
        cards=FILES.all_rows_cards(),
        pairs=FILES.all_pairs(),
        pairs_cards=FILES.all_pairs_cards(),
        ledger=LEDGER,
        code=sources("claims", *P.envs),
    output:
        FILES.evidence("claims.json"),
    log:
        FILES.log("claims"),
    benchmark:
        FILES.benchmark("claims")
    params:
        slice=job(lambda w: P.judge),
        seed=P.train_seeds[0],
        out=lambda w, output: os.path.dirname(output[0]),
    message:
        "claims"
    shell:
        "python -m tdjepa claims --slice {params.slice:q} --rows {input.rows:q} --pairs {input.pairs:q}"
        " --ledger {input.ledger:q} --train-seed {params.seed} --out {params.out:q} >{log:q} 2>&1"


# Three jobs, so that a changed caption draws no figure and a changed claim neither.
rule tables:
    input:
        PHASES["judge"],
        FILES.all_probes(),
        FILES.all_episode_cards(),
        code=sources("tables", *P.envs) + sources("render", *P.envs),
    output:
        FILES.report("tables"),
    log:
        FILES.log("tables"),
    benchmark:
        FILES.benchmark("tables")
    params:
        slice=job(lambda w: P),
    message:
        "tables"
    shell:
        "python -m tdjepa render --only tables --slice {params.slice:q} >{log:q} 2>&1"


rule figures:
    input:
        FILES.evidence("stats.json"),
        FILES.all_pairs(),
        FILES.all_pairs_cards(),
        FILES.all_aliasing(),
        FILES.all_curves(),
        code=sources("figures", *P.envs) + sources("render", *P.envs),
    output:
        FILES.report("figures"),
    log:
        FILES.log("figures"),
    benchmark:
        FILES.benchmark("figures")
    params:
        slice=job(lambda w: P),
    message:
        "figures"
    shell:
        "python -m tdjepa render --only figures --slice {params.slice:q} >{log:q} 2>&1"


rule numbers:
    input:
        PHASES["judge"],
        FILES.all_aliasing(),
        FILES.all_episode_cards(),
        code=sources("numbers", *P.envs) + sources("render", *P.envs),
    output:
        FILES.report("numbers"),
    log:
        FILES.log("numbers"),
    benchmark:
        FILES.benchmark("numbers")
    params:
        slice=job(lambda w: P),
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
