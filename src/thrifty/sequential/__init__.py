"""Sequential methods: they choose their own simulations, on top of campaigns and inference."""
