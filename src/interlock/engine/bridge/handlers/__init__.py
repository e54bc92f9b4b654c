"""What each input of a lane makes it do, by where the input comes from."""
