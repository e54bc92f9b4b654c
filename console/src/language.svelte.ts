import {languages, type Language, type Word} from './words';

const STORED = 'interlock.language';

function preferred(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === 'en' || stored === 'ko') return stored;
  return navigator.language.startsWith('ko') ? 'ko' : 'en';
}

class Words {
  language = $state<Language>(preferred());

  /** The sentence in the language of this reader. */
  get(word: Word): string {
    return languages[this.language][word];
  }

  toggle(): void {
    this.language = this.language === 'en' ? 'ko' : 'en';
    localStorage.setItem(STORED, this.language);
    document.documentElement.lang = this.language;
  }
}

export const words = new Words();
document.documentElement.lang = words.language;
