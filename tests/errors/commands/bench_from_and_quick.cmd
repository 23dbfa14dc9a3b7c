retrograd bench --from bench_other.json --quick
