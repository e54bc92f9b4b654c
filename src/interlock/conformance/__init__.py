"""What an implementation of RAWP-DPS with our profile must do, as conversations that are played against it.

`register` holds the requirements of the specifications and how far Interlock carries them. The conversations are data
(`with_master`, `with_runner`); `player` plays them over a link that `links` makes: dialling a gateway as a runner, or
listening as a gateway for a runner. Interlock's own tests play the same conversations against both its sides.
"""
