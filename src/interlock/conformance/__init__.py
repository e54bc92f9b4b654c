"""The requirements on an implementation of RAWP-DPS with our profile, checked in conversations with it.

`register` has the requirements of the specifications and their status in Interlock. The conversations are data
(`with_master`, `with_runner`); `player` plays them over a link from `links`: dialling a gateway as a runner, or
listening as a gateway for a runner. Interlock's own tests play the same conversations with both its sides.
"""
