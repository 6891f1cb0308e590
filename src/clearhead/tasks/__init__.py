"""Tasks: encode a row, read logits into answers, measure answers. numpy only."""
