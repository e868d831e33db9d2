#!/usr/bin/env python3
"""Writes a tokenizer.json of two real SentencePiece models, as models without a pre-tokenizer are published.

usage: write_tokenizers.py FOLDER

FOLDER is what tools/fetch_models.py filled. mistral_v3 becomes mistral_bpe: BPE that falls back to bytes. jamba_j2 becomes
jamba_unigram: Unigram with normalization rules.
"""
import pathlib
import sys

from sentencepiece import sentencepiece_model_pb2
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers.convert_slow_tokenizer import generate_merges

BLANK = "\u2581"


def read(folder):
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((folder / "tokenizer.model").read_bytes())
    return proto


def bpe(proto):
    scores = {piece.piece: piece.score for piece in proto.pieces}
    ids = {piece.piece: id for id, piece in enumerate(proto.pieces)}
    merges = generate_merges(ids, scores)
    return models.BPE(ids, merges, unk_token=proto.pieces[proto.trainer_spec.unk_id].piece, fuse_unk=True, byte_fallback=True)


def unigram(proto):
    vocabulary = [(piece.piece, piece.score) for piece in proto.pieces]
    return models.Unigram(vocabulary, proto.trainer_spec.unk_id, byte_fallback=True)


def write(proto, model, folder):
    tokenizer = Tokenizer(model(proto))
    rules = proto.normalizer_spec
    parts = [normalizers.Precompiled(rules.precompiled_charsmap)] if rules.precompiled_charsmap else []
    parts += [normalizers.Prepend(BLANK)] if rules.add_dummy_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*parts, normalizers.Replace(" ", BLANK)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()])
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def main():
    root = pathlib.Path(sys.argv[1])
    for source, target, model in (("mistral_v3", "mistral_bpe", bpe), ("jamba_j2", "jamba_unigram", unigram)):
        if not (root / target / "tokenizer.json").exists():
            write(read(root / source), model, root / target)


if __name__ == "__main__":
    main()
