# Planning on the locked manifest, the floors, and what the latents know. A checkpoint's costs and plan seeds share a job.
rule evaluate:
    input:
        lambda w: ancients(FILES.evaluated(w)),
        lambda w: map(card, FILES.evaluated(w)),
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        manifest=FILES.one("mined", name=f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.one("rows"),
        card=FILES.card("rows"),
    log:
        text=FILES.log("evaluate_{env}_{method}_{seed}"),
        times=FILES.times("evaluate_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("evaluate_{env}_{method}_{seed}")
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=P.runtime.gpu,
    params:
        slice=job("evaluate"),
        checkpoints=FILES.one("training"),
    message:
        "evaluate {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa evaluate --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --out {output.rows:q} --times {log.times:q} >{log.text:q} 2>&1"


# Other planner settings than the protocol's, each a table of evaluate.sweeps: a job a sweep and training.
rule sweep:
    input:
        lambda w: ancients(FILES.evaluated(w, w.sweep)),
        lambda w: map(card, FILES.evaluated(w, w.sweep)),
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        manifest=lambda w: FILES.one(
            "mined", name=f"{P.evaluate.sweeps[w.sweep].manifest}.json"
        ),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.one("sweep"),
        card=FILES.card("sweep"),
    log:
        text=FILES.log("sweep_{sweep}_{env}_{method}_{seed}"),
        times=FILES.times("sweep_{sweep}_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("sweep_{sweep}_{env}_{method}_{seed}")
    resources:
        mem_mb=4000,
        runtime=60,
        gpu=P.runtime.gpu,
    params:
        slice=job("sweep"),
        checkpoints=FILES.one("training"),
    message:
        "sweep {wildcards.sweep} {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa evaluate --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --out {output.rows:q} --times {log.times:q} >{log.text:q} 2>&1"


rule floors:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        manifest=FILES.one("mined", name=f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.one("floors"),
        card=FILES.card("floors"),
    log:
        FILES.log("floors_{env}"),
    benchmark:
        FILES.benchmark("floors_{env}")
    params:
        slice=job("floors"),
    message:
        "floors {wildcards.env}"
    shell:
        "python -m tdjepa evaluate --method floors --slice {params.slice:q} --episodes {input.episodes:q}"
        " --manifest {input.manifest:q} --out {output.rows:q} >{log:q} 2>&1"


# The planner with the true simulator as its model: what better perception and prediction could give at most.
rule ceiling:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        split=FILES.one("mined", name="split.json"),
        manifest=FILES.one("mined", name=f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("ceiling", w.env),
    output:
        rows=FILES.one("ceiling"),
        card=FILES.card("ceiling"),
    log:
        FILES.log("ceiling_{env}_{part}"),
    benchmark:
        FILES.benchmark("ceiling_{env}_{part}")
    resources:
        runtime=360,
    params:
        slice=job("ceiling"),
    message:
        "ceiling {wildcards.env} {wildcards.part}"
    shell:
        "python -m tdjepa ceiling --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --manifest {input.manifest:q} --out {output.rows:q} >{log:q} 2>&1"


# The planner with the scale's predictor on true states: what better perception could give at most.
rule ladder:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        split=FILES.one("mined", name="split.json"),
        manifest=FILES.one("mined", name=f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("ladder", w.env),
    output:
        rows=FILES.one("ladder"),
        card=FILES.card("ladder"),
    log:
        FILES.log("ladder_{env}"),
    benchmark:
        FILES.benchmark("ladder_{env}")
    params:
        slice=job("ladder"),
    message:
        "ladder {wildcards.env}"
    shell:
        "python -m tdjepa ladder --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --manifest {input.manifest:q} --out {output.rows:q} >{log:q} 2>&1"


rule diagnose:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        pairs=FILES.one("mined", name="pairs.parquet"),
        checkpoints=ancients(FILES.diagnosed()),
        checkpoint_cards=map(card, FILES.diagnosed()),
        code=lambda w: sources("diagnose", w.env),
    output:
        pairs=FILES.one("pairs"),
        card=FILES.card("pairs"),
        aliasing=FILES.one("aliasing"),
    log:
        FILES.log("diagnose_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("diagnose_{env}_{method}_{seed}")
    params:
        slice=job("diagnose"),
    message:
        "diagnose {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa diagnose --slice {params.slice:q} --episodes {input.episodes:q} --pairs {input.pairs:q}"
        " --checkpoint {input.checkpoints:q} --out {output.pairs:q} --aliasing {output.aliasing:q} >{log:q} 2>&1"


# Is the true state in the latent, and is it still there after imagined steps?
rule probe:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        split=FILES.one("mined", name="split.json"),
        checkpoint=ancient(FILES.one("checkpoint", epoch=P.train.epochs)),
        checkpoint_card=FILES.card("checkpoint", epoch=P.train.epochs),
        code=lambda w: sources("probe", w.env),
    output:
        FILES.one("probe"),
    log:
        FILES.log("probe_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("probe_{env}_{method}_{seed}")
    params:
        slice=job("probe"),
    message:
        "probe {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa probe --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --checkpoint {input.checkpoint:q} --out {output:q} >{log:q} 2>&1"
