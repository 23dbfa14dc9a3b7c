retrograd bench bessel --check bench_other.json
