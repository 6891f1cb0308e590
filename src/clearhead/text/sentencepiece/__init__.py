"""SentencePiece models read and run without the library, within stated bounds, and Marian's tokenizer on top of them.

`model_file` reads the protobuf bytes, `normalizer` and `segmenter` turn text into pieces, `decoder` turns them back.
"""
