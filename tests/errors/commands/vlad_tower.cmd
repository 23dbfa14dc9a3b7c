retrograd run vlad_tower.vlad
