# frozen_string_literal: true

require_relative "parse_context"

RSpec.describe Parse::Lock, "when the block ends" do
  include_context "with Parse"

  describe "the ways out of the block" do
    before { use_redis }

    def leaves_by_return = acquire { return :returned }

    {
      "its end" => [-> { acquire { :end } }, :end],
      "return" => [-> { leaves_by_return }, :returned],
      "break" => [-> { acquire { break :broken } }, :broken],
      "next" => [-> { acquire { next :next } }, :next],
      "throw" => [-> { catch(:out) { acquire { throw :out, :thrown } } }, :thrown]
    }.each do |way, (call, value)|
      it "#{way} gives its value and releases the lock" do
        expect(instance_exec(&call)).to be(value)
        expect(held?).to be(false)
      end
    end

    it "an exception passes and releases the lock" do
      expect { acquire { raise KeyError, "mine" } }.to raise_error(KeyError, "mine")
      expect(held?).to be(false)
    end

    it "Timeout passes and releases the lock" do
      expect { Timeout.timeout(0.05) { acquire { sleep } } }.to raise_error(Timeout::Error)
      expect(held?).to be(false)
    end

    it "Thread#kill releases the lock" do
      entered = Queue.new
      thread = background { acquire { entered.push(:in) && sleep } }
      entered.pop
      thread.kill.join
      expect(held?).to be(false)
    end

    it "Thread#raise passes and releases the lock" do
      entered = Queue.new
      thread = background do
        acquire { entered.push(:in) && sleep }
      rescue KeyError => e
        [e.message, held?]
      end
      entered.pop
      thread.raise(KeyError, "from outside")
      expect(thread.value).to eq(["from outside", false])
    end

    it "Thread#kill while it waits leaves no lock behind" do
      held_by_another
      await_sleep(thread = background { acquire(wait: 20) { :never } })
      thread.kill.join
      shared_redis.call("DEL", store_key)
      expect(held?).to be(false)
    end

    it "never release another owner's lock" do
      other = SecureRandom.uuid
      acquire { shared_redis.call("SET", store_key, other, "EX", 5) }
      expect(shared_redis.call("GET", store_key)).to eq(other)
    end

    it "in a child that was forked inside leave the parent's lock alone" do
      suite = Process.pid
      values = acquire do |token|
        pid = Process.fork
        next unless pid # the child leaves the block

        Process.wait(pid)
        [token, shared_redis.call("GET", store_key)]
      end
      exit!(0) unless Process.pid == suite
      expect(values.uniq.size).to be(1)
    ensure
      exit!(1) unless Process.pid == suite
    end
  end

  describe "a block that runs longer than its ttl" do
    before { use_redis }

    it "is warned of when it ends, and its value is returned", :timing do
      value = nil
      heard = warnings do
        value = acquire(ttl: 1) do
          sleep 1.1
          :late
        end
      end
      expect(value).to be(:late)
      section = /critical section for #{Regexp.escape(key.inspect)}/
      expect(heard).to contain_exactly(
        match(/\A\[Parse::Lock\] #{section} ran 1\.\d+s, exceeding ttl: 1s/)
          .and(match(/Mutual exclusion was NOT guaranteed/))
      )
    end

    it "is warned of also where it raises, and the lock of the next holder stands", :timing do
      other = SecureRandom.uuid
      heard = warnings do
        expect do
          acquire(ttl: 1) do
            sleep 1.1
            shared_redis.call("SET", store_key, other, "EX", 5, "NX")
            raise KeyError
          end
        end.to raise_error(KeyError)
      end
      expect(heard.size).to be(1)
      expect(shared_redis.call("GET", store_key)).to eq(other)
    end

    it "releases the lock even if the warning raises", :timing do
      allow(Parse::Lock::Reports).to receive(:warn).and_raise(SecurityError, "no warnings here")
      expect do
        acquire(ttl: 1) do
          shared_redis.call("PERSIST", store_key)
          sleep 1.1
        end
      end.to raise_error(SecurityError)
      expect(held?).to be(false)
    end
  end
end
