retrograd bench ba --full
