// Text out of what the recogniser says of each step along a line (connectionist temporal classification).

/**
 * The text of one line and how sure the recogniser is of it, from 0 to 1: the mean over its characters. Of the classes
 * 0 is "no new character here"; one that stands for several steps is one character.
 *
 * @param {Float32Array} probabilities of one line, [steps, classes]
 * @param {readonly string[]} characters by class, less one
 */
export function decodeLine(probabilities, characters) {
  const classes = characters.length + 1;
  let text = '';
  let sum = 0;
  let count = 0;
  let before = 0;
  for (let at = 0; at < probabilities.length; at += classes) {
    const best = bestOf(probabilities, at, classes);
    if (best !== 0 && best !== before) {
      text += characters[best - 1];
      sum += probabilities[at + best];
      count += 1;
    }
    before = best;
  }
  return { text, score: count === 0 ? 0 : sum / count };
}

function bestOf(probabilities, at, classes) {
  let best = 0;
  for (let index = 1; index < classes; index += 1)
    if (probabilities[at + index] > probabilities[at + best]) best = index;
  return best;
}

/** The characters of a file that has one in each line; the last class is the space, which has none. */
export function readCharacters(text) {
  return [...text.replace(/\r?\n$/, '').split(/\r?\n/), ' '];
}
