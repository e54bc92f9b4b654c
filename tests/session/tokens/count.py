"""Make the generated samples, and count all samples with a public tokenizer (Z-1).

    pip install toktok-rs
    python tests/session/tokens/count.py

writes the samples that are random, and `counts.json`: the o200k_base count of each `*.txt` here. With --characters
it prints the table of `interlock.session.context.token_weights`.
"""

from __future__ import annotations

import base64
import json
import random
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
ENCODING = "o200k_base"
LINE = 100


def random_samples() -> dict[str, str]:
    """Return the samples that no person wrote; always the same."""
    dice = random.Random(41)

    def chars(first: int, last: int, count: int) -> str:
        return "".join(chr(dice.randint(first, last)) for _ in range(count))

    def words(letters: str, least: int, most: int, count: int) -> str:
        return " ".join("".join(dice.choice(letters) for _ in range(dice.randint(least, most))) for _ in range(count))

    alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    return {
        "random_ascii": chars(33, 126, 900), "random_ascii_lines": "\n".join(chars(32, 126, 60) for _ in range(15)),
        "random_alnum": words(alnum, 3, 20, 80), "random_letters": words(alnum[:26], 2, 9, 150),
        "base64": base64.b64encode(dice.randbytes(700)).decode(), "hex": dice.randbytes(450).hex(),
        "uuids": "\n".join("-".join(dice.randbytes(size).hex() for size in (4, 2, 2, 2, 6)) for _ in range(25)),
        "hexdump": "\n".join(f"{at * 16:08x}  " + " ".join(f"{one:02x}" for one in dice.randbytes(16))
                             for at in range(18)),
        "numbers_csv": "\n".join(",".join(f"{dice.uniform(0, 10_000):.2f}" for _ in range(8)) for _ in range(16)),
        "hangul_rare": chars(0xAC00, 0xD7A3, 300),
        "hangul_rare_words": " ".join(chars(0xAC00, 0xD7A3, dice.randint(1, 4)) for _ in range(100)),
        "ideographs_rare": chars(0x4E00, 0x9FFE, 300), "emoji_rare": chars(0x1F300, 0x1F64F, 200),
        "ansi_test_run": "\n".join(
            f"\x1b[{dice.choice([32, 31, 33])}m{dice.choice(['PASS', 'FAIL', 'SKIP'])}\x1b[0m \x1b[2mtests/\x1b[22m"
            f"\x1b[1m{dice.choice(['orders', 'totals', 'api'])}.test.ts\x1b[22m (\x1b[38;5;{dice.randint(16, 255)}m"
            f"{dice.randint(1, 999)} ms\x1b[39m)\x1b[K" for _ in range(18)),
        "ansi_screen": "".join(
            f"\x1b[{dice.randint(1, 40)};{dice.randint(1, 120)}H\x1b[0;{dice.randint(30, 37)}m"
            f"{dice.choice(['load', 'cpu0', '██░', 'q:quit'])}\x1b[m" for _ in range(45)),
        "log": "\n".join(
            f"2026-11-{dice.randint(1, 28):02d}T{dice.randint(0, 23):02d}:{dice.randint(0, 59):02d}:07."
            f"{dice.randint(0, 999):03d}Z {dice.choice(['INFO', 'WARN', 'ERROR'])} [worker-{dice.randint(1, 9)}] "
            f"request={dice.randbytes(6).hex()} path=/api/v1/{dice.choice(['users', 'orders'])}/"
            f"{dice.randint(1, 99999)} status={dice.choice([200, 404, 500])} "
            f"took={dice.randint(1, 9000)}ms ip=10.0.{dice.randint(0, 255)}.7"
            for _ in range(15)),
    }


def character_table(count: list[int]) -> str:
    """Return the tokens of each character of the basic plane alone, two bits each, compressed, in base 85."""
    bits = bytearray(0x10000 // 4)
    for point, tokens in enumerate(count):
        bits[point >> 2] |= min(tokens, 3) << ((point & 3) * 2)
    return base64.b85encode(zlib.compress(bytes(bits), 9)).decode()


def characters() -> list[str]:
    """Return the characters of the table; entries without a count are empty."""
    return [chr(point) if point >= 0x80 and not 0xD800 <= point < 0xE000 else "" for point in range(0x10000)]


def main() -> None:
    """Count."""
    import toktok

    if "--characters" in sys.argv:
        table = character_table(toktok.batch_count(characters(), ENCODING))
        print("\n".join(table[at:at + LINE] for at in range(0, len(table), LINE)))
        return
    for name, text in random_samples().items():
        (HERE / f"{name}.txt").write_text(text + "\n", encoding="utf-8", newline="")
    files = sorted(HERE.glob("*.txt"))
    texts = [file.read_bytes().decode() for file in files]
    counts = dict(zip((file.stem for file in files), toktok.batch_count(texts, ENCODING), strict=True))
    result = {"tokenizer": f"{ENCODING} (toktok-rs {version('toktok-rs')})",
              "command": "python tests/session/tokens/count.py", "counts": counts}
    (HERE / "counts.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
