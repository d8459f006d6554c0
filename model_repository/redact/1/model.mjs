// Masks e-mail addresses and phone numbers. TEXT: BYTES [n, 1], UTF-8.
// REDACTED: the same text with each find replaced; COUNT: INT32 [n, 1], the finds per text.

const EMAIL = /[\p{L}\p{N}._%+-]{1,64}@(?:[\p{L}\p{N}-]{1,63}\.){1,8}\p{L}{2,24}/gu;
// +, then 7 to 15 digits (E.164); or three groups as in (555) 010-9999; or 7 to 11 digits after a 0 with separators.
const PHONE =
  /(?<![\p{L}\p{N}.+-])(?:\+\d(?:[ ()./-]{0,2}\d){6,14}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}|0\d{1,4}[ /-]\d(?:[ -]?\d){5,9})(?![\p{L}\p{N}])/gu;

const decoder = new TextDecoder();
const encoder = new TextEncoder();

function redact(text) {
  let count = 0;
  const mask = (word) => () => {
    count += 1;
    return word;
  };
  return { redacted: text.replace(EMAIL, mask('[email]')).replace(PHONE, mask('[phone]')), count };
}

/** One response per request, in order. A request may itself be a batch. */
export function execute(requests) {
  return requests.map((request) => {
    const { shape, data } = request.inputs.get('TEXT');
    const results = data.map((bytes) => redact(decoder.decode(bytes)));
    return {
      outputs: {
        REDACTED: { datatype: 'BYTES', shape, data: results.map(({ redacted }) => encoder.encode(redacted)) },
        COUNT: { datatype: 'INT32', shape, data: Int32Array.from(results, ({ count }) => count) },
      },
    };
  });
}
