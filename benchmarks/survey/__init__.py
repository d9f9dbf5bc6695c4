"""A survey of transformers: what every architecture makes under ``torch.compile``.

    python -m benchmarks.survey.run --out build/survey.jsonl [--shard 1/4] [--seconds 3000]
    python -m benchmarks.survey.table build/survey*.jsonl

``architectures`` lists the classes, ``shrink`` makes their configurations small,
``inputs`` invents what goes in, ``measure`` runs one model and says what it made,
``run`` does so for all of them, each in a process of its own, and ``table`` puts
the results into the repository and draws ``docs/explanation/survey.md`` of them.
Nothing is downloaded.
"""
