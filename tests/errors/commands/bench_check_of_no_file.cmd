retrograd bench --check nowhere.json
