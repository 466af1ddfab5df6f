"""How long a step would take in cells that were not measured, and which cell to choose.

Physics first, a learned residual second, an interval from cross-validation, and no answer far from what was measured.
`predictor.learn` starts from measurements (`measured`) and gives a `Predictor`.
"""
