# frozen_string_literal: true

require "spec_helper"
require "support/failures"

# Each example runs in its own process, because a Ractor changes a process for good.
RSpec.describe "In a Ractor" do
  let(:url) { shared_redis.unix_url }

  def ractor(program, *arguments)
    output, status = ruby(<<~RUBY, *arguments)
      require "plock"
      Warning[:experimental] = false
      Thread.report_on_exception = false
      #{program}
    RUBY
    expect(status).to be_success, output
    output
  end

  it "a store that was opened there works" do
    expect(ractor(<<~RUBY, url, unique_key)).to eq("true\n")
      p Ractor.new(*ARGV) { |url, key|
        store = Plock::Store.open(url)
        valid = store.hold(key, 3_000, 1.0, nil) { |lease| lease.valid? && lease.token.size == 36 }
        owner = Plock.token
        valid && store.lock_acquire(key, owner, 3) &&
          !store.lock_acquire(key, Plock.token, 3) && store.lock_release(key, owner)
      }.take
    RUBY
  end

  it "stores of several Ractors exclude one another" do
    expect(ractor(<<~RUBY, url, unique_key)).to eq("[0, 200]\n")
      count = ARGV[1] + ":count"
      ractors = Array.new(4) {
        Ractor.new(*ARGV) { |url, key|
          store = Plock::Store.open(url)
          overlaps = 0
          50.times {
            store.hold(key, 30_000, 30, nil) {
              # Another lock, which is free whenever no other Ractor is in this block.
              mine = Plock.token
              overlaps += 1 unless store.lock_acquire(key + ":inner", mine, 30)
              store.lock_release(key + ":inner", mine)
            }
          }
          [overlaps, 50]
        }
      }
      p ractors.map(&:take).transpose.map(&:sum)
    RUBY
  end

  # On Ruby 3.1, all Ractors share one table of finalizers, and no lock protects it. So several
  # Ractors must not define finalizers at the same time.
  it "stores in memory define no finalizer, which several Ractors cannot do at once" do
    expect(ractor(<<~RUBY)).to eq("[[0, 100], [0, 100], [0, 100], [0, 100]]\n")
      defined = Module.new {
        def define_finalizer(*)
          Ractor.current[:finalizers] = Ractor.current[:finalizers].to_i + 1
          super
        end
      }
      ObjectSpace.singleton_class.prepend(defined)
      Plock::Store.open("memory:") # loads the files, because other Ractors cannot
      ractors = Array.new(4) {
        Ractor.new {
          store = Plock::Store.open("memory:")
          leases = Array.new(100) { |number| store.acquire("k\#{number}", ttl: 60) }
          [Ractor.current[:finalizers].to_i, leases.count(&:release)]
        }
      }
      p ractors.map(&:take)
    RUBY
  end

  it "plock raises the same errors as elsewhere" do
    expect(ractor(<<~RUBY)).to eq(<<~OUTPUT)
      puts Ractor.new {
        begin
          Plock::Store.open("unix:///nowhere/at/all.sock").lock_acquire("k", "o", 1)
        rescue Plock::Error => e
          e.class.name + " " + e.code.name
        end
      }.take
      puts Ractor.new {
        begin
          Plock::Store.open("gopher://x")
        rescue Plock::Error => e
          e.class.name
        end
      }.take
      puts Ractor.new {
        begin
          Plock::Store.open("unix:///nowhere/at/all.sock").hold("k", 1_000, 0.05, nil) { }
        rescue Plock::Error => e
          e.class.name
        end
      }.take
    RUBY
      Plock::UnavailableError connect
      Plock::ConfigurationError
      Plock::UnavailableError
    OUTPUT
  end

  it "digest, store_key and token work" do
    expect(ractor(<<~RUBY)).to eq("64 66 36\n")
      puts Ractor.new {
        made = [Plock.digest("x", "s" * 16), Plock.store_key("p:", "x"), Plock.token]
        made.map { |text| text.size }.join(" ")
      }.take
    RUBY
  end

  it "a store cannot be shared, because it belongs to the Ractor that opened it" do
    expect(ractor(<<~RUBY, url)).to eq("Ractor::IsolationError\n")
      STORE = Plock::Store.open(ARGV[0])
      begin
        Ractor.new { STORE.hold("k", 1_000, 0, nil) { } }.take
      rescue Ractor::RemoteError => e
        puts e.cause.class
      end
    RUBY
  end

  it "the end of a Ractor and of the process is clean while stores are open" do
    expect(ractor(<<~RUBY, url, unique_key)).to eq("done\n")
      ractors = Array.new(3) do
        Ractor.new(*ARGV) { |url, key| Plock::Store.open(url).hold(key, 3_000, 5, nil) { 1 } }
      end
      ractors.each(&:take)
      GC.start
      puts "done"
    RUBY
  end
end
