"""Methods that steer their own simulations, on top of campaigns and inference."""
