"""How good ddlbench is, in numbers: each against a named peer, measured in the same run, in turns.

python -m benchmarks         all of them (hours on 2 idle cores), then the tables in docs/accuracy.md and README.md
python -m benchmarks.link    one of them; BENCHMARK_RESULTS=/tmp/trial keeps a trial out of benchmarks/results
"""
