# frozen_string_literal: true

require "spec_helper"
require "tmpdir"
require "plock/store/memcached"
require "support/store_behind_proxy"
require "support/memcached"

Dalli.logger.level = Logger::FATAL # otherwise, Dalli would log each failure that the examples cause

RSpec.describe "Failures of a store in memcached", needs: Support::Memcached::PROGRAMS do
  let!(:key) { "failure:#{SecureRandom.hex(8)}" }

  def memcached_store(address, **options) =
    discard(Plock::Store::Memcached.new(address, **options), :close)

  describe "an address that is none" do
    [
      "u:sesame%x@127.0.0.1:1", "u:se@same@127.0.0.1:1", "u:sesame\#@127.0.0.1:1",
      "u:sesame/@127.0.0.1:1", "u:sesame?@127.0.0.1:1", "u:sesame,@127.0.0.1:1", "127.0.0.1:port"
    ].each do |address|
      it "is refused at once, with no part of the password: #{address}" do
        expect { Plock::Store.open("memcached://#{address}") }.to raise_error(
          Plock::ConfigurationError, /\A(?!.*sesame).*: a server must be host:port, or /
        )
      end
    end

    it "is no other one" do
      ["memcached://u:p%40w@127.0.0.1:1", "memcached://127.0.0.1", "memcached://[::1]:1,h:2:3"]
        .each { |url| expect(Plock::Store.open(url).url).to eq url.sub(/[^\/]*@/, "") }
    end
  end

  describe "between it and its server" do
    let(:direct) { memcached_store(Support::Memcached.shared.address) }
    let(:line) { proxy(["127.0.0.1", Support::Memcached.shared.port]) }
    # Examples with :timing measure how long a silent server delays a caller, so their timeouts are
    # short. The other timeouts are long, so that a busy machine does not count as a silent server.
    let!(:budgets) do |example|
      next { attempt_timeout: 0.2 } if example.metadata[:timing]

      { attempt_timeout: 1.0, unavailable_timeout: 10 }
    end
    let(:store) { store_with(**budgets) }

    def store_with(**budgets) = memcached_store("127.0.0.1:#{line.port}", **budgets)

    it_behaves_like "a store whose server is far"

    {
      "an answer that never comes" => :reply, "a request that never arrives" => :request
    }.each do |what, way|
      it "#{what} raises in time, and leaves nothing", :timing do
        store.acquire(key) { nil }
        line.swallow(way)
        within(0.3) do
          expect { store.acquire(key, ttl: 30, wait: 0) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
        line.clear
        eventually(5) { direct.try_acquire(key, ttl: 30) { true } }
      end
    end

    { "refuses connections" => :refuse, "is silent" => :silent }.each do |what, mode|
      it "a server that #{what} does not hold up a long wait: " \
         "UnavailableError after unavailable_timeout",
         :timing do
        line.__send__(mode)
        within(1.6, least: 1.0) do
          expect { store.acquire(key, wait: 60) { raise "entered" } }.to raise_error(
            Plock::UnavailableError
          )
        end
      end
    end

    it "a server that is silent holds up no process that ends while a thread of it is in a block" do
      server = discard(Support::Memcached.new.start, :stop)
      output, status = ruby(<<~RUBY, server.address, key, server.pid.to_s, within: 10)
        require "plock/store/memcached"
        store = Plock::Store::Memcached.new(ARGV[0])
        inside = Queue.new
        Thread.new { store.acquire(ARGV[1]) { inside << 1; sleep } }
        inside.pop
        Dalli.logger.level = Logger::FATAL
        Process.kill(:STOP, Integer(ARGV[2]))
        threads = Dir["/proc/\#{ARGV[2]}/task/*/stat"] # some may run on for a moment
        Thread.pass until threads.all? { |stat| File.read(stat)[/\\) (\\w)/, 1] == "T" }
      RUBY
      expect(status).to be_success
      expect(output).to match(/could not be released .*UnavailableError/)
    ensure
      Process.kill(:CONT, server.pid) if server
    end

    it "a server that does not greet does not hold up the exit of a process " \
       "whose threads are in blocks" do
      go =
        File.join(
          Dir.mktmpdir("plock-end").tap { |path| discard(-> { FileUtils.rm_rf(path) }, :call) },
          "go"
        )
      ended = background do
        ruby(<<~RUBY, "127.0.0.1:#{line.port}", key, go, within: 15)
          require "plock/store/memcached"
          Dalli.logger.level = Logger::FATAL
          store = Plock::Store::Memcached.new(ARGV[0])
          6.times { |number| Thread.new { store.acquire("\#{ARGV[1]}:\#{number}") { sleep } } }
          sleep 0.01 until File.exist?(ARGV[2])
        RUBY
      end
      eventually(10) { Array.new(6) { |number| direct.status("#{key}:#{number}") }.all?(&:held?) }
      line.silent
      line.disconnect
      File.write(go, "")
      output, status = ended.value
      expect(status).to be_success
      expect(output).to include("could not be released")
    end

    it "a waiter behind another does not restart its timeout when the other gives up", :timing do
      line.refuse
      within(2.0) do
        callers =
          Array.new(5) do
            background do

              store.acquire(key, wait: 60) { raise "entered" }
            rescue StandardError
              $!.class

            end
          end
        expect(callers.map(&:value)).to all(eq(Plock::UnavailableError))
      end
    end

    it "a caller with a long enough wait: survives it" do
      store.acquire(key) { nil }
      line.swallow(:reply)
      waiter = background { store.acquire(key, ttl: 30, wait: 20) { :entered } }
      await_sleep(waiter)
      line.clear
      expect(waiter.join(10)&.value).to be(:entered)
    end

    it "a late cleanup leaves the lease of a repeated request alone" do
      store.acquire(key) { nil }
      owned = "owned:#{SecureRandom.hex(8)}"
      line.swallow(:reply)
      waiter = background { store.acquire(key, ttl: 30, wait: 20) }
      expect { store.lock_acquire(owned, "me", 30) }.to raise_error(Plock::UnavailableError)
      line.clear
      lease = waiter.join(10).value
      direct.lock_release(owned, "me")
      expect(store.lock_acquire(owned, "me", 30)).to be(true)
      sleep 1.2 # by then, the store has made its last attempt to undo the request
      expect([lease.release, store.lock_release(owned, "me")]).to eq([true, true])
    end

    it "a break does not hit who takes the key meanwhile" do
      store = memcached_store("127.0.0.1:#{line.port}", attempt_timeout: 5)
      first = direct.acquire(key, ttl: 30)
      second = nil
      breaking(store, first) do
        first.release && second = direct.acquire(key, ttl: 30)
      end.then { |broken| expect(broken).to be(false) }
      expect(second.release).to be(true)
    end

    it "a break hits who renews the lease meanwhile" do
      store = memcached_store("127.0.0.1:#{line.port}", attempt_timeout: 5)
      lease = direct.acquire(key, ttl: 30)
      expect(breaking(store, lease) { lease.extend }).to be(true)
      expect(lease.release).to be(false)
    end

    # Breaks the lock, and runs the block between the two requests of the break. At that moment, the
    # store has just read which lease it must break.
    def breaking(store, lease)
      store.status(key) # makes the store compare its secret now, and not during the break
      line.forget
      line.hold(:reply, after: "mg ")
      broken = background { store.break(key) }
      line.await(:reply, lease.token)
      yield
      line.clear
      broken.join(5).value
    end

    # An interrupted extension may still write the key after a later call has read it.
    %i[extend release].each do |call|
      it "an earlier extension that arrives late does not hide the lease from #{call}" do
        store = memcached_store("127.0.0.1:#{line.port}", attempt_timeout: 5)
        lease = store.acquire(key, ttl: 30)
        raw = Dalli::Client.new(Support::Memcached.shared.address, protocol: :meta, raw: true)
        name = store.status(key).store_key
        line.forget
        line.hold(:reply, after: "mg ")
        calling = background { lease.public_send(call) }
        line.await(:reply, lease.token)
        raw.set(name, raw.get(name), 31) # what the extension writes: the same token again
        line.clear
        expect(calling.join(5).value).to be_truthy
        expect(direct.status(key).held?).to be(call == :extend)
        lease.release
      end
    end

    it "a release that fails is warned of, and the key frees itself" do
      heard = warnings { store.acquire(key, ttl: 5) { line.swallow(:reply) } }
      expect(heard).to match([/could not be released/])
      line.clear
      eventually(15) { direct.try_acquire(key) { true } }
    end

    it "a caller that is killed while the server is silent leaves nothing behind" do
      store.acquire(key) { nil }
      line.swallow(:reply)
      thread = background { store.acquire(key, ttl: 30, wait: 5) { raise "entered" } }
      await_sleep(thread)
      thread.kill.join(5)
      line.clear
      eventually(5) { direct.try_acquire(key, ttl: 30) { true } }
    end
  end

  describe "of its server" do
    let(:server) { discard(Support::Memcached.new.start, :stop) }
    let(:store) do |example|
      memcached_store(server.address, attempt_timeout: example.metadata[:timing] ? 0.3 : 2.0)
    end

    it "a restart forgets a lease, which is noticed, and never releases the next one's" do
      lost = Queue.new
      lease = store.acquire(key, ttl: 3, renew: true, on_lost: ->(_) { lost << true })
      server.restart
      eventually(5) { !lost.empty? }
      expect(lease.lost?).to be(true)
      other = memcached_store(server.address)
      next_one = eventually(5) { other.try_acquire(key, ttl: 30) }
      expect(lease.release).to be(false)
      expect(store.try_acquire(key)).to be_nil
      expect(next_one.fence).to be > lease.fence # after a restart, fences begin at the clock's time
      next_one.release
    end

    it "an eviction is noticed at the next call" do
      lease = store.acquire(key, ttl: 30)
      Dalli::Client.new(server.address, protocol: :meta).flush_all
      expect { lease.extend }.to raise_error(Plock::LeaseLost)
      expect(lease.release).to be(false)
    end

    it "one that stands still, or is gone, holds up no caller for longer than an attempt",
       :timing do
      store.acquire(key) { nil }
      server.stop_process
      within(1.0) do
        expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
      server.continue_process
      eventually(5) do
        store.acquire(key, wait: 0) { true }
      rescue Plock::Error
        false
      end
      server.kill
      within(1.0) do
        expect { store.acquire(key, wait: 0) { raise "entered" } }.to raise_error(
          Plock::UnavailableError
        )
      end
    end
  end

  it "a holder that was killed keeps the key until its time is over, and not for long after that" do
    store = memcached_store(Support::Memcached.shared.address)
    holder =
      child do |parent|
        memcached_store(Support::Memcached.shared.address).acquire(key, ttl: 1) do
          parent.tell(:held) && sleep
        end
      end
    holder.hear
    expect(store.try_acquire(key)).to be_nil
    holder.signal(:KILL)
    expect(store.acquire(key, wait: 10) { :entered }).to be(:entered)
  end

  it "takes a key for an owner of any bytes, and leaves none behind for an owner without a name" do
    store = memcached_store(Support::Memcached.shared.address)
    owned = "owned-#{SecureRandom.hex(8)}"
    ["n\u00e4he", "\xFF\xFE".b, "a b\r\n"].each do |owner|
      expect(store.lock_acquire(owned, owner, 30)).to be(true)
      expect(store.lock_acquire(owned, "another", 30)).to be(false)
      expect(store.lock_release(owned, owner)).to be(true)
    end
    expect { store.lock_acquire(owned, "", 30) }.to raise_error(ArgumentError, "the owner is empty")
    expect(store.lock_acquire(owned, "another", 1)).to be(true)
  end

  it "leaves a parent's lease alone in a child" do
    store = memcached_store(Support::Memcached.shared.address)
    lease = store.acquire(key, ttl: 30)
    expect(in_child { [lease.release, lease.valid?, store.try_acquire(key)] }).to eq(
      [false, false, nil]
    )
    expect([lease.valid?, lease.release]).to eq([true, true])
  end
end
