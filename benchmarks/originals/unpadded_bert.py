"""A BERT that removes the padding of a batch, written as a user of Transformers can write it.

The tokens of all rows lie one after another in a single row; each attends to the tokens of its own row. Transformers' collator for this,
DataCollatorWithFlattening, needs FlashAttention, which has no kernels for a CPU: with other attention a BERT mixes the rows.
"""
import torch
import transformers
from torch.nn import functional
from transformers.modeling_outputs import SequenceClassifierOutput


def row_by_row(module, query, key, value, attention_mask, dropout=0.0, scaling=None, lengths=(), **kwargs):
    """Attention among the tokens of each row; a row has `lengths[i]` of them."""
    rows = zip(*(tensor.split(lengths, dim=2) for tensor in (query, key, value)))
    attended = [functional.scaled_dot_product_attention(*row, dropout_p=dropout, scale=scaling) for row in rows]
    return torch.cat(attended, dim=2).transpose(1, 2), None


transformers.AttentionInterface.register("row_by_row", row_by_row)


class UnpaddedBert(transformers.BertForSequenceClassification):
    def __init__(self, config):
        config._attn_implementation = "row_by_row"
        super().__init__(config)

    def forward(self, input_ids, attention_mask, labels=None, token_type_ids=None):
        is_token = attention_mask.bool()
        lengths, ids = is_token.sum(dim=1), input_ids[is_token][None]
        positions = torch.arange(input_ids.shape[1]).expand_as(input_ids)[is_token][None]
        embedded = self.bert.embeddings(input_ids=ids, position_ids=positions, token_type_ids=torch.zeros_like(ids))
        hidden = self.bert.encoder(embedded, lengths=lengths.tolist()).last_hidden_state[0]
        first_tokens = hidden[lengths.cumsum(dim=0) - lengths]
        logits = self.classifier(self.dropout(self.bert.pooler(first_tokens[:, None])))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)
