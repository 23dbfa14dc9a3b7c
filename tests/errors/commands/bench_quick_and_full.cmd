retrograd bench --quick --full --data .
