"""People and agents in a chat, by any service that implements `interlock.ports.chat_service`.

A chat bridge is an ordinary client of the gateway's API: a person's messages and votes are sent with that person's own
key, so they may do what that key may do over REST, and nothing else.
"""
