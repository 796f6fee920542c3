# One job a training: every method, environment and training seed by the same rule.
rule train:
    input:
        episodes=ancient(FILES.episodes),
        card=FILES.episodes_card,
        split=FILES.mined("split.json"),
        code=lambda w: sources("train", w.env),
    output:
        FILES.checkpoints(),
        cards=FILES.checkpoint_cards(),
        curve=FILES.training("curve.csv"),
    log:
        FILES.log("train_{env}_{method}_{seed}"),
    resources:
        mem_mb=6000,
        runtime=60,
    params:
        slice=job(lambda w: tdjepa_params.train_slice(P, w.env, w.method, int(w.seed))),
        out=lambda w, output: os.path.dirname(output.curve),
    message:
        "train {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "python -m tdjepa train --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --out {params.out:q} >{log:q} 2>&1"
