"""A Llama of random weights and a tokenizer of whole words, as small as they can be, saved to a folder."""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from assay_payloads.serving.llm_load import WORDS

words = {word: number for number, word in enumerate(["[unknown]", *WORDS])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="[unknown]"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
fast.chat_template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
fast.save_pretrained(sys.argv[1])

torch.manual_seed(1)
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=None,  # no answer ends before it has the tokens that were asked for
    )
)
llama.save_pretrained(sys.argv[1])
