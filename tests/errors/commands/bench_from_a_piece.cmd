retrograd bench --from bench_short.json
