"""A small grammar that generates English sentences, their translations into a French-like language, and word
alignments.

Its word order and agreement make attention interesting: most adjectives follow their noun and a few precede it;
determiners, adjectives and verbs agree in gender and number; and a negation encloses the verb: "the small black cat
does not see my red car", "le petit chat noir ne voit pas ma voiture rouge".
"""

from dataclasses import dataclass
from random import Random

from mhaviz.training.corpus import Corpus, Pair

NAME = "the built-in grammar"
SENTENCES, HELD_OUT = 8000, 500
"""Number of different sentences in the built-in corpus, and number of those that are held out."""


@dataclass(frozen=True)
class _Word:
    """A word and its translations, in each form, in the order of the columns below."""

    english: tuple[str, ...]
    french: tuple[str, ...]


def _table(text: str) -> tuple[_Word, ...]:
    """Parse a table with one word on each line: its English forms, a bar, its French forms."""
    sides = [line.split("|") for line in text.strip().splitlines()]
    return tuple(_Word(tuple(english.split()), tuple(french.split())) for english, french in sides)


# English: singular, plural. French: singular, plural.
_MASCULINE = _table("""
    cat cats         | chat chats
    dog dogs         | chien chiens
    horse horses     | cheval chevaux
    boy boys         | garçon garçons
    king kings       | roi rois
    book books       | livre livres
    hat hats         | chapeau chapeaux
    garden gardens   | jardin jardins
    boat boats       | bateau bateaux
    bread breads     | pain pains
""")
_FEMININE = _table("""
    cow cows         | vache vaches
    girl girls       | fille filles
    queen queens     | reine reines
    woman women      | femme femmes
    mouse mice       | souris souris
    car cars         | voiture voitures
    house houses     | maison maisons
    flower flowers   | fleur fleurs
    table tables     | table tables
    shirt shirts     | chemise chemises
""")
# French: masculine, feminine, masculine plural, feminine plural. English determiners: singular, plural.
_BEFORE_THE_NOUN = _table("""
    small     | petit petite petits petites
    big       | grand grande grands grandes
    beautiful | beau belle beaux belles
    old       | vieux vieille vieux vieilles
    good      | bon bonne bons bonnes
    new       | nouveau nouvelle nouveaux nouvelles
""")
_AFTER_THE_NOUN = _table("""
    black     | noir noire noirs noires
    white     | blanc blanche blancs blanches
    red       | rouge rouge rouges rouges
    green     | vert verte verts vertes
    blue      | bleu bleue bleus bleues
    heavy     | lourd lourde lourds lourdes
""")
_DETERMINERS = _table("""
    the the    | le la les les
    my my      | mon ma mes mes
    your your  | ton ta tes tes
    this these | ce cette ces ces
    a some     | un une des des
""")
# English: with a singular subject, with a plural one (and after does, do). French: the same.
_VERBS = _table("""
    sees see         | voit voient
    finds find       | trouve trouvent
    wants want       | veut veulent
    takes take       | prend prennent
    follows follow   | suit suivent
    washes wash      | lave lavent
    paints paint     | peint peignent
    sells sell       | vend vendent
    loses lose       | perd perdent
    keeps keep       | garde gardent
""")
_NEGATED, _JOINED, _ADJECTIVE = 0.4, 0.35, 0.4
"""Probability that a verb is negated, that an object has a second noun, and that a noun has an adjective of each
kind."""


class _Writer:
    """Writes a pair word by word: two sentences and the links between their words."""

    def __init__(self) -> None:
        self.source: list[str] = []
        self.target: list[str] = []
        self.alignment: list[tuple[int, int]] = []

    def read(self, english: str) -> int:
        """Append a word to the source, and return its position."""
        self.source.append(english)
        return len(self.source) - 1

    def write(self, french: str, position: int) -> None:
        """Append a word to the target: the translation of the source word at this position."""
        self.alignment.append((position, len(self.target)))
        self.target.append(french)


def translation_corpus(seed: int = 0, sentences: int = SENTENCES, held_out: int = HELD_OUT) -> Corpus:
    """Return different sentences with their translations and alignments; the last ``held_out`` are kept from
    training."""
    random = Random(seed)
    pairs: dict[tuple[str, ...], Pair] = {}
    while len(pairs) < sentences:
        pair = write_pair(random)
        pairs.setdefault(pair.source, pair)
    drawn = tuple(pairs.values())
    return Corpus(NAME, drawn[:-held_out], drawn[-held_out:])


def write_pair(random: Random) -> Pair:
    """Return a sentence with subject, verb and object, its translation, and the alignment of each target word."""
    writer = _Writer()
    plural = _noun_phrase(writer, random)
    verb = random.choice(_VERBS)
    if random.random() < _NEGATED:
        writer.read("do" if plural else "does")
        negation = writer.read("not")
        position = writer.read(verb.english[1])
        writer.write("ne", negation)
        writer.write(verb.french[plural], position)
        writer.write("pas", negation)
    else:
        writer.write(verb.french[plural], writer.read(verb.english[plural]))
    _noun_phrase(writer, random)
    if random.random() < _JOINED:
        writer.write("et", writer.read("and"))
        _noun_phrase(writer, random)
    return Pair(tuple(writer.source), tuple(writer.target), tuple(writer.alignment))


def _noun_phrase(writer: _Writer, random: Random) -> bool:
    """Write a determiner, adjectives and a noun in the order of each language, and return whether they are plural."""
    plural, feminine = random.random() < 0.5, random.random() < 0.5
    determiner = random.choice(_DETERMINERS)
    before = random.choice(_BEFORE_THE_NOUN) if random.random() < _ADJECTIVE else None
    after = random.choice(_AFTER_THE_NOUN) if random.random() < _ADJECTIVE else None
    noun = random.choice(_FEMININE if feminine else _MASCULINE)

    in_english = [word for word in (determiner, before, after, noun) if word]
    positions = {word: writer.read(word.english[plural % len(word.english)]) for word in in_english}
    in_french = [word for word in (determiner, before, noun, after) if word]
    for word in in_french:
        form = plural if word is noun else 2 * plural + feminine
        writer.write(word.french[form], positions[word])
    return plural
