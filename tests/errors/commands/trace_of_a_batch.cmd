retrograd run functions.py:add --batch batch.npz --trace
