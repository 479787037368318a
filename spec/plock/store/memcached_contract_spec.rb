# frozen_string_literal: true

require "spec_helper"
require "plock/store/memcached"
require "support/memcached"
require "support/store_contract"

RSpec.describe "A store in memcached", needs: Support::Memcached::PROGRAMS do
  # Raises from a signal handler at every third step only. Each request starts a thread, which makes
  # the number of steps large.
  let(:signals_apart) { 3 }
  let(:store) { opener.call }
  let(:opener) do
    ->(**options) do
      discard(
        Plock::Store::Memcached.new(
          Support::Memcached.shared.address, attempt_timeout: 20, **options
        ),
        :close
      )
    end
  end

  it_behaves_like "a store", Plock::Store::Memcached::UNABLE
end
