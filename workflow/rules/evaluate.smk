# Planning on the locked manifest, the floors, and what the latents know. A checkpoint's costs and plan seeds share a job.
rule evaluate:
    input:
        lambda w: FILES.evaluated_checkpoints(w.env, w.method, w.seed),
        lambda w: FILES.evaluated_cards(w.env, w.method, w.seed),
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        manifest=FILES.mined(f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.rows,
        card=FILES.rows_card,
    log:
        text=FILES.log("evaluate_{env}_{method}_{seed}"),
        times=FILES.times("evaluate_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("evaluate_{env}_{method}_{seed}")
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        slice=job(
            lambda w: tdjepa_params.evaluate_slice(P, w.env, w.method, int(w.seed))
        ),
        checkpoints=lambda w: layout.training(S, w.env, w.method, w.seed),
    message:
        "evaluate {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa evaluate --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --out {output.rows:q} --times {log.times:q} >{log.text:q} 2>&1"


# Other planner settings than the protocol's, each a table of evaluate.sweeps: a job a sweep and training.
rule sweep:
    input:
        lambda w: FILES.evaluated_checkpoints(w.env, w.method, w.seed, w.sweep),
        lambda w: FILES.evaluated_cards(w.env, w.method, w.seed, w.sweep),
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        manifest=lambda w: FILES.mined(f"{P.evaluate.sweeps[w.sweep].manifest}.json"),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.sweep,
        card=FILES.sweep_card,
    log:
        text=FILES.log("sweep_{sweep}_{env}_{method}_{seed}"),
        times=FILES.times("sweep_{sweep}_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("sweep_{sweep}_{env}_{method}_{seed}")
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        slice=job(
            lambda w: tdjepa_params.evaluate_slice(
                P, w.env, w.method, int(w.seed), w.sweep
            )
        ),
        checkpoints=lambda w: layout.training(S, w.env, w.method, w.seed),
    message:
        "sweep {wildcards.sweep} {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa evaluate --slice {params.slice:q} --episodes {input.episodes:q} --manifest {input.manifest:q}"
        " --checkpoints {params.checkpoints:q} --out {output.rows:q} --times {log.times:q} >{log.text:q} 2>&1"


rule floors:
    input:
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        manifest=FILES.mined(f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("evaluate", w.env),
    output:
        rows=FILES.floors,
        card=FILES.floors_card,
    log:
        FILES.log("floors_{env}"),
    benchmark:
        FILES.benchmark("floors_{env}")
    params:
        slice=job(lambda w: tdjepa_params.evaluate_slice(P, w.env, "floors", 0)),
    message:
        "floors {wildcards.env}"
    shell:
        "python -m tdjepa evaluate --method floors --slice {params.slice:q} --episodes {input.episodes:q}"
        " --manifest {input.manifest:q} --out {output.rows:q} >{log:q} 2>&1"


# The planner with the true simulator as its model: what better perception and prediction could give at most.
rule ceiling:
    input:
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        split=FILES.mined("split.json"),
        manifest=FILES.mined(f"{P.evaluate.manifest}.json"),
        code=lambda w: sources("ceiling", w.env),
    output:
        rows=FILES.ceiling,
        card=FILES.ceiling_card,
    log:
        FILES.log("ceiling_{env}"),
    benchmark:
        FILES.benchmark("ceiling_{env}")
    resources:
        runtime=360,
    params:
        slice=job(lambda w: tdjepa_params.ceiling_slice(P, w.env)),
    message:
        "ceiling {wildcards.env}"
    shell:
        "python -m tdjepa ceiling --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --manifest {input.manifest:q} --out {output.rows:q} >{log:q} 2>&1"


rule diagnose:
    input:
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        pairs=FILES.mined("pairs.parquet"),
        checkpoints=ancient(FILES.diagnosed(FILES.checkpoints())),
        checkpoint_cards=FILES.diagnosed(FILES.checkpoint_cards()),
        code=lambda w: sources("diagnose", w.env),
    output:
        pairs=FILES.diagnostic("pairs.parquet"),
        card=FILES.diagnostic("pairs.card.json"),
        aliasing=FILES.diagnostic("aliasing.json"),
    log:
        FILES.log("diagnose_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("diagnose_{env}_{method}_{seed}")
    params:
        slice=job(
            lambda w: tdjepa_params.diagnose_slice(P, w.env, w.method, int(w.seed))
        ),
    message:
        "diagnose {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa diagnose --slice {params.slice:q} --episodes {input.episodes:q} --pairs {input.pairs:q}"
        " --checkpoint {input.checkpoints:q} --out {output.pairs:q} --aliasing {output.aliasing:q} >{log:q} 2>&1"


# Is the true state in the latent, and is it still there after imagined steps?
rule probe:
    input:
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        split=FILES.mined("split.json"),
        checkpoint=ancient(FILES.last_checkpoint),
        checkpoint_card=FILES.last_card,
        code=lambda w: sources("probe", w.env),
    output:
        FILES.diagnostic("probe.json"),
    log:
        FILES.log("probe_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("probe_{env}_{method}_{seed}")
    params:
        slice=job(lambda w: tdjepa_params.probe_slice(P, w.env, w.method, int(w.seed))),
    message:
        "probe {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa probe --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --checkpoint {input.checkpoint:q} --out {output:q} >{log:q} 2>&1"
