# One job a training: every method, environment and training seed by the same rule. A training that was asked to stop (SIGTERM:
# status 75) has saved itself and is started again. How it is done is given as resources, which make nothing run again.
rule train:
    input:
        episodes=ancient(FILES.one("episodes")),
        card=FILES.card("episodes"),
        split=FILES.one("mined", name="split.json"),
        backbone=lambda w: ancients(FILES.backbone(w)),
        backbone_card=lambda w: [card(file) for file in FILES.backbone(w)],
        code=lambda w: sources("train", w.env),
    output:
        FILES.checkpoints(),
        cards=map(card, FILES.checkpoints()),
        curve=FILES.one("curve"),
    log:
        FILES.log("train_{env}_{method}_{seed}"),
    benchmark:
        FILES.benchmark("train_{env}_{method}_{seed}")
    resources:
        mem_mb=6000,
        runtime=60,
        gpu=P.runtime.gpu,
        snapshot_every=P.runtime.snapshot_every,
        gather_every=P.runtime.gather_every,
        reader_workers=P.runtime.reader_workers,
        reader_mb=int(P.runtime.memory_mb),
    params:
        slice=job("train"),
        out=lambda w, output: os.path.dirname(output.curve),
    message:
        "train {wildcards.env} {wildcards.method} {wildcards.seed}"
    shell:
        "until python -m tdjepa train --slice {params.slice:q} --episodes {input.episodes:q} --split {input.split:q}"
        " --snapshot-every {resources.snapshot_every} --gather-every {resources.gather_every}"
        " --reader-workers {resources.reader_workers} --memory-mb {resources.reader_mb}"
        " --backbone {input.backbone:q} --out {params.out:q};"
        " do status=$?; [ $status -eq 75 ] || exit $status; done >{log:q} 2>&1"
