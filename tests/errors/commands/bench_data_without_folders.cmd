retrograd bench ba --data .
