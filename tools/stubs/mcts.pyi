from assay.payloads.mcts import *
