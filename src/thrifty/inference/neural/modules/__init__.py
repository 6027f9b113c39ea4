"""The parts of networks in torch, one idea a file: perceptrons, embeddings, the head start, flow matching."""
