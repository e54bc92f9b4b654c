"""Every operation of the API as a function that returns its request as data: one definition for both shells."""
