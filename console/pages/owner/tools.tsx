/** What can be done with the whole list. */
import { useState } from 'preact/hooks';
import { changeQuery } from '../../router.js';

export const Tools = () => (
  <div class="actions">
    <Jump />
  </div>
);

/** Goes to a plant by its id, wherever it is in the list. */
const Jump = () => {
  const [id, setId] = useState('');
  return (
    <form
      class="jump"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        if (/^-?\d+$/.test(id.trim())) changeQuery({ plant: String(Number(id)) });
      }}
    >
      <label class="hidden" for="jump">
        Go to the plant with the id
      </label>
      <input
        id="jump"
        type="text"
        inputMode="numeric"
        placeholder="Id"
        value={id}
        pattern="\s*-?[0-9]+\s*"
        onInput={(event) => {
          setId(event.currentTarget.value);
        }}
      />
      <button type="submit">Go to id</button>
    </form>
  );
};
