retrograd bench --from words.txt
