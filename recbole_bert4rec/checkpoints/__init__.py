"""Files of trained models: plain tensors and plain values, read without unpickling code and without RecBole."""
