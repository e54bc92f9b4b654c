"""Every operation of the API as a function that gives its request as data: one definition for both shells."""
