retrograd bench besel --quick
