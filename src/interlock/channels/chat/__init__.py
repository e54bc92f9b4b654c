"""People and agents in a chat, by any service that implements `interlock.ports.chat_service`.

A chat bridge is one more program at the gateway's API: what a person writes or votes there goes out under that person's
own key, so it may do what that key may do over REST, and nothing else.
"""
