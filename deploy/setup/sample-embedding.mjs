import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { SAMPLES } from './checkout.mjs';
import { modelSources, writeModel, writeNotice } from './sample-modules.mjs';

const TOKENIZER_PARTS = {
  config: 'minilm/minilm_tokenizer.pbtxt',
  modules: ['minilm/tokenizer.mjs'],
  packages: ['@huggingface/tokenizers'],
};
const EMBEDDING_PARTS = { config: 'minilm/minilm_embedding.pbtxt' };
const POOLING_PARTS = { config: 'minilm/minilm_pooling.pbtxt', modules: ['minilm/pooling.mjs'] };

const TOKENIZER_NOTICE = `tokenizer.json is a copy of the one of the sample model minilm, whose NOTICE says where it is from.
`;

/** Texts to the token ids that `minilm` takes. */
export const MINILM_TOKENIZER = {
  name: 'minilm_tokenizer',
  needs: ['minilm'],
  needsPackages: true,
  pins: [TOKENIZER_NOTICE],
  files: modelSources(TOKENIZER_PARTS),

  make({ model }) {
    writeModel(model, TOKENIZER_PARTS);
    copyFileSync(join(SAMPLES, 'minilm', 'tokenizer.json'), join(model, 'tokenizer.json'));
    writeNotice(model, TOKENIZER_NOTICE);
  },
};

/** What `minilm` says of a text's tokens to one vector. */
export const MINILM_POOLING = {
  name: 'minilm_pooling',
  needs: ['minilm'],
  pins: [],
  files: modelSources(POOLING_PARTS),
  make: ({ model }) => writeModel(model, POOLING_PARTS),
};

/** Texts to vectors: an ensemble of the tokenizer, `minilm` and the pooling. */
export const MINILM_EMBEDDING = {
  name: 'minilm_embedding',
  needs: ['minilm', 'minilm_tokenizer', 'minilm_pooling'],
  pins: [],
  files: modelSources(EMBEDDING_PARTS),
  make: ({ model }) => writeModel(model, EMBEDDING_PARTS),
};
