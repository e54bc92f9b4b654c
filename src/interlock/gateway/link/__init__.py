"""The runners' endpoint: frames in, control frames and acknowledgements out."""
