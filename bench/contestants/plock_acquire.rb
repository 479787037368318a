# frozen_string_literal: true

# Plock.acquire with a block. It either waits for the answer to its release, or releases in the
# background.
%i[tcp unix].each do |transport|
  { "acquire" => :wait, "background" => :background }.each do |name, release|
    Bench.contestant "#{name}-#{transport}",
                     label: "plock, Plock.acquire#{", release: :background" if name != "acquire"}",
                     role: :engine,
                     transport: transport do |server|
      require "plock"

      store = Plock::Store.open(server.url(transport), secret: Bench::SECRET, release: release)
      key = "bench:#{name}"
      -> { store.acquire(key) { :held } }
    end
  end
end
