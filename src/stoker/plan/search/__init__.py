"""Which layout is best on given servers, and which servers are cheapest for a deadline.

`space` lists what there is to try; `family` says how to make the workload of each; `estimate` judges all of them
from a few traces of a shallow model; `find` traces the best in full; `outcome` compares what came out.
"""
